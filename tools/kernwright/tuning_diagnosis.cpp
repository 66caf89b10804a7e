#include "tuning_diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "tuning/row_check.hpp"
#include "tuning/search_command.hpp"

namespace kernwright::tool {
namespace {

constexpr const char* kFolderRemedy = "Name the folder that your tables (*.toml) stand in, or unset KERNWRIGHT_TUNING_DIR.";

class TableRows {
 public:
  TableRows(TemplateSet& templates, std::vector<TuningDiagnosis::Device>& devices) : templates_(templates), devices_(devices) {}

  void add(const TuningRow& row) {
    Judged& judged = of(row.template_name);
    ++judged.rows.tiles;
    if (!judge(row, judged) || row.measured.empty()) return;
    for (TuningDiagnosis::Device& each : devices_) {
      if (closeness_to(row, each.device) >= Closeness::target) ++each.measured;
    }
  }
  void add(const PreferenceRow& row) {
    Judged& judged = of(row.template_name);
    ++judged.rows.preferences;
    judge(row, judged);
  }
  std::vector<TemplateRows> take() {
    std::vector<TemplateRows> all;
    for (auto& [name, judged] : by_name_) all.push_back(std::move(judged.rows));
    return all;
  }

 private:
  struct Judged {
    TemplateRows rows;
    std::shared_ptr<const TemplateDefinition> definition;  // null: not a built-in template
  };

  Judged& of(const std::string& name) {
    const auto [place, fresh] = by_name_.try_emplace(name);
    Judged& judged = place->second;
    if (fresh) {
      judged.rows.template_name = name;
      if (auto definition = templates_.find(name)) {
        judged.definition = std::move(*definition);
        judged.rows.known = true;
        judged.rows.digest = judged.definition->digest;
      }
    }
    return judged;
  }

  /// Counts the row; whether it can count for anything.
  template <class Row>
  bool judge(const Row& row, Judged& judged) {
    if (!judged.definition) return false;
    TemplateRows& rows = judged.rows;
    if (std::string problem = row_problem(row, judged.definition->manifest); !problem.empty()) {
      rows.wrong.push_back(std::move(problem));
      return false;
    }
    if (is_stale(row, rows.digest)) {
      ++rows.stale;
      if (std::ranges::find(rows.stale_digests, row.digest) == rows.stale_digests.end()) rows.stale_digests.push_back(row.digest);
      return false;
    }
    Closeness closest = Closeness::none;
    for (const TuningDiagnosis::Device& each : devices_) closest = std::max(closest, closeness_to(row, each.device));
    ++rows.holding(closest);
    return true;
  }

  TemplateSet& templates_;
  std::vector<TuningDiagnosis::Device>& devices_;
  std::map<std::string, Judged> by_name_;
};

void list_problems(TuningDiagnosis& diagnosis) {
  for (const TuningDiagnosis::Table& table : diagnosis.tables) {
    for (const TemplateRows& rows : table.templates) {
      const std::size_t all = rows.tiles + rows.preferences;
      if (rows.stale > 0) {
        const std::string_view command = search_command(rows.template_name);
        diagnosis.problems.push_back(
            {fmt::format("tuning table {} holds for other sources of {} than these: {} of {} rows for it count for nothing", table.name,
                         rows.template_name, rows.stale, all),
             fmt::format("Measure anew{}, or delete the rows.", command.empty() ? "" : fmt::format(" ({})", command))});
      }
      for (const std::string& wrong : rows.wrong) {
        diagnosis.problems.push_back(
            {fmt::format("tuning table {} has a row for {} that counts for nothing: {}", table.name, rows.template_name, wrong),
             "Correct the row, or delete it."});
      }
    }
  }
}

/// What is wrong with the folder itself.
void look_at_folder(Runtime::State& state, TuningDiagnosis& diagnosis) {
  if (!state.tuning_folder) return;
  diagnosis.folder = state.tuning_folder->path.string();
  diagnosis.named_by = state.tuning_folder->from_environment ? "KERNWRIGHT_TUNING_DIR" : "tuning_folder";
  const auto files = tuning_files(*state.tuning_folder, *state.files);
  if (!files) {
    diagnosis.problems.push_back({files.error().message + ": the built-in tuning tables alone are used", kFolderRemedy});
  } else if (files->empty()) {
    diagnosis.problems.push_back(
        {state.tuning_folder->text() + ": no file *.toml is in it: the built-in tuning tables alone are used", kFolderRemedy});
  }
}

}  // namespace

TuningDiagnosis diagnose_tuning(Runtime::State& state, const std::vector<DeviceInfo>& devices) {
  TuningDiagnosis diagnosis;
  for (const DeviceInfo& device : devices) diagnosis.devices.push_back({device, 0});
  look_at_folder(state, diagnosis);
  const auto templates = state.templates();
  const auto tables = state.tables();
  if (!templates || !tables) {
    diagnosis.failure = (templates ? tables.error() : templates.error()).text();
    return diagnosis;
  }
  for (const TuningTable& table : (*tables)->all()) {
    TableRows rows(**templates, diagnosis.devices);
    for (const TuningRow& row : table.tiles) rows.add(row);
    for (const PreferenceRow& row : table.preferences) rows.add(row);
    diagnosis.tables.push_back({table.name, table.owner == TableOwner::kernwright, rows.take()});
  }
  list_problems(diagnosis);
  return diagnosis;
}

}  // namespace kernwright::tool
