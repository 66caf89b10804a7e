// A kernel template as source text: how an engine registers its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kernwright {

/// A manifest (TOML, see docs/kernels.md) and the files it names. `name` is a virtual path such as "my_engine/scale.cu": it is what
/// #include "…" looks up and what the compiler prints; no disk is read.
struct TemplateSource {
  struct File {
    std::string name;
    std::string content;
  };
  std::string manifest;
  std::vector<File> files;
};

}  // namespace kernwright
