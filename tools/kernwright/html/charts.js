// Draws the charts that the page's data describes with Chart.js. Three kinds: bars, points, heat.
(function () {
  'use strict';
  const specs = JSON.parse(document.getElementById('kernwright-charts').textContent);
  const drawn = new Map();
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = () => ['--first', '--second', '--third', '--fourth', '--soft'].map(color);
  const shown = (value, unit) => (value === null || value === undefined ? 'none' : Number(value.toPrecision(4)) + (unit ? ' ' + unit : ''));

  function mixed(share) {  // 0: best, 1: worst
    const part = (hex, at) => parseInt(hex.slice(at, at + 2), 16);
    const best = color('--best'), worst = color('--worst');
    const channel = (at) => Math.round(part(best, at) + (part(worst, at) - part(best, at)) * share);
    return 'rgb(' + channel(1) + ',' + channel(3) + ',' + channel(5) + ')';
  }

  function valueAxis(spec) {
    const axis = { type: spec.log ? 'logarithmic' : 'linear',
                   title: { display: true, text: spec.unit + (spec.log ? ', logarithmic' : ''), color: color('--soft') },
                   grid: { color: color('--line') }, ticks: { color: color('--soft'), maxTicksLimit: 7 } };
    if (!spec.log) axis.beginAtZero = spec.kind === 'bars';
    if (spec.log) {
      // Powers of ten have a line, 2 and 5 a number as well.
      axis.ticks.callback = function (value) {
        const lead = Number(String(value.toExponential()).split('e')[0]);
        return [1, 2, 5].includes(Math.round(lead * 1e6) / 1e6) ? shown(value, '') : null;
      };
      axis.ticks.maxTicksLimit = 30;
    }
    return axis;
  }
  function labelAxis(labels) {
    return { type: 'category', labels: labels, offset: true, grid: { display: false },
             ticks: { color: color('--text'), autoSkip: false, font: { size: 11 } } };
  }
  const common = (spec) => ({
    animation: false, responsive: true, maintainAspectRatio: false, indexAxis: spec.kind === 'heat' ? 'x' : 'y',
    plugins: { legend: { display: spec.kind === 'bars' || spec.kind === 'points', position: 'top', align: 'start',
                         labels: { color: color('--text'), boxWidth: 12, boxHeight: 12 } } },
  });

  function bars(spec) {
    const colors = palette();
    const options = common(spec);
    options.scales = { x: valueAxis(spec), y: labelAxis(spec.labels) };
    if (spec.log) {  // the shortest bar too has a length
      const smallest = Math.min(...spec.series.flatMap((series) => series.values).filter((value) => value > 0));
      if (Number.isFinite(smallest)) options.scales.x.min = 10 ** Math.floor(Math.log10(smallest / 2));
    }
    options.plugins.tooltip = { callbacks: { label: (item) => item.dataset.label + ': ' + shown(item.raw, spec.unit) } };
    return { type: 'bar', options: options,
             data: { labels: spec.labels,
                     datasets: spec.series.map((series, i) => ({ label: series.name, data: series.values,
                                                                 backgroundColor: colors[i % colors.length], maxBarThickness: 18 })) } };
  }
  function points(spec) {
    const colors = palette();
    const options = common(spec);
    options.scales = { x: valueAxis(spec), y: labelAxis(spec.labels) };
    options.plugins.tooltip = { callbacks: { label: (item) => item.dataset.label + ', ' + item.raw.y + ': ' + shown(item.raw.x, spec.unit) } };
    return { type: 'scatter', options: options,
             data: { datasets: spec.series.map((series, i) => ({
               label: series.name, data: series.points.map((point) => ({ x: point[1], y: spec.labels[point[0]] })),
               backgroundColor: colors[i % colors.length], borderColor: colors[i % colors.length],
               pointStyle: i === 0 ? 'circle' : 'rectRot', pointRadius: i === 0 ? 4 : 6 })) } };
  }
  function heat(spec) {
    const measured = spec.cells.filter((cell) => cell.value !== null);
    const best = Math.min(...measured.map((cell) => cell.value));
    const share = (value) => Math.min(1, Math.log(value / best) / Math.log(4));
    // A cell as large as the grid leaves it: the point style 'rect' has sides of radius x sqrt(2).
    const radius = (context) => {
      const area = context.chart.chartArea;
      if (!area) return 6;
      return Math.max(3, 0.9 / Math.SQRT2 * Math.min((area.right - area.left) / spec.x.length, (area.bottom - area.top) / spec.y.length));
    };
    const options = common(spec);
    options.scales = { x: labelAxis(spec.x), y: labelAxis(spec.y) };
    options.scales.x.position = 'top';
    options.scales.x.ticks.maxRotation = 90;
    options.plugins.legend.display = false;
    options.plugins.tooltip = { callbacks: { label: (item) => item.raw.tile + ': ' + (item.raw.value === null
      ? item.raw.outcome : shown(item.raw.value, spec.unit) + ', ' + shown(item.raw.value / best, '') + ' x the best') } };
    const place = (cell) => ({ x: spec.x[cell.x], y: spec.y[cell.y], value: cell.value, outcome: cell.outcome, tile: cell.tile });
    const failed = spec.cells.filter((cell) => cell.value === null);
    return { type: 'scatter', options: options, data: { datasets: [
      { label: 'measured', data: measured.map(place), pointStyle: 'rect', pointRadius: radius, pointHoverRadius: radius,
        backgroundColor: measured.map((cell) => mixed(share(cell.value))),
        borderColor: measured.map((cell) => cell.value === best ? color('--second') : 'transparent'), pointBorderWidth: 2 },
      { label: 'failed', data: failed.map(place), pointStyle: 'crossRot', pointRadius: 6, pointHoverRadius: 7, borderColor: color('--bad'), pointBorderWidth: 2 },
    ] } };
  }

  function height(spec) {
    if (spec.kind === 'heat') return 70 + 26 * spec.y.length;
    const rows = spec.kind === 'bars' ? spec.labels.length * (10 + 15 * spec.series.length) : spec.labels.length * 30;
    return 100 + rows;
  }
  function draw(spec) {
    const canvas = document.getElementById(spec.id);
    if (!canvas || !canvas.parentElement.offsetParent) return;  // in a section that is closed
    canvas.parentElement.style.height = height(spec) + 'px';
    if (spec.kind === 'heat') canvas.parentElement.style.minWidth = 130 + 26 * spec.x.length + 'px';
    if (drawn.has(spec.id)) drawn.get(spec.id).destroy();
    drawn.set(spec.id, new Chart(canvas, { bars: bars, points: points, heat: heat }[spec.kind](spec)));
  }
  const drawAll = () => specs.forEach(draw);
  document.querySelectorAll('details').forEach((each) => each.addEventListener('toggle', () => {
    specs.filter((spec) => each.contains(document.getElementById(spec.id)) && !drawn.has(spec.id)).forEach(draw);
  }));
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  drawAll();
})();
