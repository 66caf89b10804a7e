// Whether a row of a tuning table can ever count for the template that it names.
#pragma once

#include <string>

#include "manifest/manifest.hpp"
#include "tuning/tuning_table.hpp"

namespace kernwright {

/// "{ heads = 8, dtype = "bf16" }", as it stands in a table.
std::string when_text(const std::vector<Specialisation::Item>& when);

/// Why no specialisation of the template is one that the row is for, as the end of a sentence "its row …"; empty where one is.
std::string unmatched_problem(const TuningRow& row, const Manifest& manifest);
std::string unmatched_problem(const PreferenceRow& row, const Manifest& manifest);

/// The same, or why what the row chooses is nothing that the template offers.
std::string row_problem(const TuningRow& row, const Manifest& manifest);
std::string row_problem(const PreferenceRow& row, const Manifest& manifest);

}  // namespace kernwright
