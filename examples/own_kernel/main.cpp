// An engine's own kernel template, registered and launched through the runtime: engine/rms_norm.{toml,cu} and its headers.
//   own_kernel [--host]
// Runs on the first CUDA device, or on the host interpreter where --host or KERNWRIGHT_TARGET=host asks for it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/rms_norm_params.cuh"
#include "kernwright/runtime.hpp"

namespace {

using namespace kernwright;

constexpr std::int64_t kRows = 10;  // not a multiple of any tile's rows but 1 and 2
// Four rows of this many floats take 256 KiB of shared memory, more than any device has: the tile that fits is a smaller one.
constexpr std::int64_t kHidden = 16384;
constexpr float kEpsilon = 1e-6F;

/// The template's files by the names under which they include each other. An engine would rather compile them into itself.
Result<TemplateSource> read_template(const std::string& folder) {
  TemplateSource source;
  const auto read = [&](const std::string& name, std::string& content) {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(file), {});
    return !content.empty();
  };
  if (!read("engine/rms_norm.toml", source.manifest)) return fail(ErrorCode::io, "cannot read engine/rms_norm.toml in " + folder);
  for (const char* name : {"engine/rms_norm.cu", "engine/rms_norm_plan.cuh", "engine/rms_norm_params.cuh"}) {
    TemplateSource::File& file = source.files.emplace_back();
    file.name = name;
    if (!read(file.name, file.content)) return fail(ErrorCode::io, "cannot read " + file.name + " in " + folder);
  }
  return source;
}

Result<Kernel> prepare(const Runtime& runtime, DeviceId device) {
  auto source = read_template(OWN_KERNEL_FOLDER);
  if (!source) return fail(std::move(source.error()));
  if (auto registered = runtime.register_template(*source); !registered) return fail(std::move(registered.error()));
  PrepareRequest request;
  request.template_name = "engine/rms_norm";
  request.specialisation.set("hidden", kHidden);
  request.device = device;
  request.params_bytes = sizeof(engine::RmsNormParams);
  return runtime.prepare(request);
}

Result<std::vector<float>> rms_norm(const Runtime& runtime, const Kernel& kernel, DeviceId device, const std::vector<float>& x,
                                    const std::vector<float>& weight) {
  auto x_buffer = runtime.allocate(device, Bytes{x.size() * sizeof(float)});
  auto weight_buffer = runtime.allocate(device, Bytes{weight.size() * sizeof(float)});
  auto out_buffer = runtime.allocate(device, Bytes{x.size() * sizeof(float)});
  auto stream = runtime.create_stream(device);
  for (auto* buffer : {&x_buffer, &weight_buffer, &out_buffer}) {
    if (!*buffer) return fail(std::move(buffer->error()));
  }
  if (!stream) return fail(std::move(stream.error()));
  auto done = x_buffer->upload(std::as_bytes(std::span(x)));
  if (done) done = weight_buffer->upload(std::as_bytes(std::span(weight)));
  if (!done) return fail(std::move(done.error()));

  engine::RmsNormParams params{};
  params.x = static_cast<const float*>(x_buffer->data());
  params.weight = static_cast<const float*>(weight_buffer->data());
  params.out = static_cast<float*>(out_buffer->data());
  params.rows = kRows;
  params.epsilon = kEpsilon;
  const std::int64_t rows_per_block = kernel.plan().rows_per_block;
  const Grid grid{static_cast<std::uint32_t>((kRows + rows_per_block - 1) / rows_per_block), 1, 1};
  done = kernel.launch(grid, params, stream->handle());
  if (done) done = stream->synchronize();
  std::vector<float> out(x.size());
  if (done) done = out_buffer->download(std::as_writable_bytes(std::span(out)));
  if (!done) return fail(std::move(done.error()));
  return out;
}

/// The largest error relative to the value that fp64 gives.
double worst_error(const std::vector<float>& x, const std::vector<float>& weight, const std::vector<float>& out) {
  double worst = 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::span<const float> values(x.data() + row * kHidden, kHidden);
    double squares = 0;
    for (const float value : values) squares += double{value} * double{value};
    const double scale = 1.0 / std::sqrt(squares / double{kHidden} + double{kEpsilon});
    for (std::size_t column = 0; column < kHidden; ++column) {
      const double expected = double{values[column]} * scale * double{weight[column]};
      const double error = std::abs(double{out[row * kHidden + column]} - expected) / std::max(std::abs(expected), 1e-6);
      if (!(error <= worst)) worst = error;  // keeps a NaN
    }
  }
  return worst;
}

int report_error(const Error& error, int exit_code) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  const char* target = std::getenv("KERNWRIGHT_TARGET");
  const bool host = (argc > 1 && std::string_view(argv[1]) == "--host") || (target != nullptr && std::string_view(target) == "host");
  const DeviceId device = host ? DeviceId::host() : DeviceId::cuda(0);

  const auto runtime = Runtime::create();
  if (!runtime) return report_error(runtime.error(), 1);
  const auto kernel = prepare(*runtime, device);
  if (!kernel) {
    if (!host) std::fprintf(stderr, "No kernel on %s. Where there is no GPU, add --host.\n", to_string(device).c_str());
    return report_error(kernel.error(), kernel.error().code == ErrorCode::driver_unavailable ? 3 : 1);
  }

  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(kRows * kHidden);
  std::vector<float> weight(kHidden);
  for (float& value : x) value = normal(random);
  for (float& value : weight) value = 1.0F + 0.1F * normal(random);
  const auto out = rms_norm(*runtime, *kernel, device, x, weight);
  if (!out) return report_error(out.error(), 1);

  const PrepareReport& report = kernel->report();
  std::printf("%s %s on %s, %s\n", report.template_name.c_str(), report.specialisation.text().c_str(), to_string(device).c_str(),
              to_string(report.cache).data());
  std::printf("tile asked for %s, fitted %s%s%s\n", report.tile_asked.text().c_str(), report.tile_fitted.text().c_str(),
              report.fit_reason.empty() ? "" : ": ", report.fit_reason.c_str());
  const double worst = worst_error(x, weight, *out);
  std::printf("largest relative error against fp64: %.3g\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
