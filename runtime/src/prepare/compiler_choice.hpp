// Which compilers' entries count: the present compiler's, or, where nothing may or can be compiled, those that the stores list.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "prepare/store_stack.hpp"

namespace kernwright {

/// Thread-safe.
class CompilerChoice {
 public:
  /// `pick` narrows what the stores list to one: "nvrtc 13.0", "13.0", or the first digits of its record's name.
  CompilerChoice(std::shared_ptr<StoreStack> stores, bool sealed, std::optional<std::string> pick);

  struct Choice {
    std::vector<CompilerIdentity> identities;  ///< Never empty; the first one's key names the request in this process.
    bool present = false;                      ///< The compiler is there and may be used.
    Error absence;                             ///< Why it is not, unless sealed.
  };
  /// Sealed, the compiler is not even looked for. What the stores list is read once. Errors: compiler_unavailable where there is none and
  /// no store lists any; not_found, invalid_argument where `pick` names none or several; sealed_miss where the runtime is sealed and no
  /// store lists a compiler.
  Result<Choice> choose(Compiler& compiler);

 private:
  Result<std::vector<CompilerIdentity>> listed(std::string_view family);
  [[nodiscard]] Result<std::vector<CompilerIdentity>> pick(std::vector<CompilerIdentity> all) const;

  std::shared_ptr<StoreStack> stores_;
  bool sealed_;
  std::optional<std::string> pick_;
  std::mutex mutex_;
  std::map<std::string, std::vector<CompilerIdentity>, std::less<>> listed_;  ///< By family, once any was listed.
};

}  // namespace kernwright
