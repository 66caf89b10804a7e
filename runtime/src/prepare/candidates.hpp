// The tiles that a prepare may try, in order, with their plans.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "prepare/runtime_state.hpp"

namespace kernwright {

/// A template and the constants asked of it, complete.
struct Specialised {
  std::shared_ptr<const TemplateDefinition> definition;
  Specialisation specialisation;
};
/// not_found or invalid_argument where the template or a parameter is wrong.
Result<Specialised> specialise(Runtime::State& state, const std::string& template_name, const Specialisation& given);

struct Candidate {
  Tile tile;
  Plan plan;
};

/// What a block may have on the device, or on devices of a target.
struct BlockLimits {
  std::string owner;  ///< For messages: the device's or the target's name.
  Bytes shared_memory;
  int max_threads = 0;
};
BlockLimits limits_of(const DeviceInfo& device);
Result<BlockLimits> limits_of(Runtime::State& state, const Target& target);

/// Empty where the plan is within the limits; otherwise why it is not, as a sentence.
std::string over_limit(const Plan& plan, const BlockLimits& limits);

/// The plans of a template's whole fall-back order, and of the tile asked for where that stands outside of it. What is compiled is the same
/// whatever is asked for, as far as the order holds it: one entry of the store serves all.
struct PlanTable {
  std::vector<Tile> tiles;
  Obtained obtained;  ///< Its plans in the order of `tiles`.
};
/// invalid_argument where `asked` is not one of the manifest's, unsupported where no variant is offered on the target; else as the
/// compiler.
Result<PlanTable> obtain_plans(Runtime::State& state, const TemplateDefinition& definition, const Specialisation& specialisation,
                               const std::optional<Tile>& asked, const Target& target, Compiler& compiler);

/// The manifest's candidates for `asked` (or for nobody in particular) that are legal for the specialisation, in order. invalid_argument
/// where `asked` itself is not legal, with the legal ones.
Result<std::vector<Candidate>> legal_candidates(const PlanTable& table, const Manifest& manifest, const Specialisation& specialisation,
                                                const std::optional<Tile>& asked, const Target& target);
/// Both steps.
Result<std::vector<Candidate>> legal_candidates(Runtime::State& state, const TemplateDefinition& definition,
                                                const Specialisation& specialisation, const std::optional<Tile>& asked,
                                                const Target& target, Compiler& compiler);

}  // namespace kernwright
