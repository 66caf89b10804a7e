// Follows #include "…" by name through a map of files. Conditional inclusion is not evaluated: a file that some branch includes belongs to
// the closure, which can only make a key more careful.
#include <fmt/format.h>

#include <map>
#include <optional>

#include "templates/template_set.hpp"

namespace kernwright {
namespace {

constexpr std::string_view kGeneratedPrefix = "kernwright/";

std::string_view trim_left(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view{} : text.substr(start);
}

/// The rest of a line behind "#include", or nothing where the line is no include.
std::optional<std::string_view> include_argument(std::string_view line) {
  std::string_view rest = trim_left(line);
  if (rest.empty() || rest.front() != '#') return std::nullopt;
  rest = trim_left(rest.substr(1));
  constexpr std::string_view kDirective = "include";
  if (!rest.starts_with(kDirective)) return std::nullopt;
  rest.remove_prefix(kDirective.size());
  if (!rest.empty() && rest.front() != ' ' && rest.front() != '\t' && rest.front() != '"' && rest.front() != '<') return std::nullopt;
  return trim_left(rest);
}

struct Include {
  std::string name;
  int line = 0;
};

Result<std::vector<Include>> includes_of(const std::string& name, std::string_view content) {
  std::vector<Include> found;
  int number = 0;
  while (!content.empty()) {
    ++number;
    const std::size_t end = content.find('\n');
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    const auto argument = include_argument(line);
    if (!argument) continue;
    const std::size_t close = argument->size() > 1 ? argument->find('"', 1) : std::string_view::npos;
    if (argument->empty() || argument->front() != '"' || close == std::string_view::npos) {
      return fail(
          ErrorCode::unsupported,
          fmt::format("{}:{}: '{}': a template includes files of its own tree as #include \"folder/file.cuh\" and nothing else, so that "
                      "what it is made of is known exactly",
                      name, number, line));
    }
    found.push_back({std::string(argument->substr(1, close - 1)), number});
  }
  return found;
}

}  // namespace

Result<std::vector<SourceFile>> resolve_closure(const FileMap& files, const std::string& main) {
  const auto root = files.find(main);
  if (root == files.end())
    return fail(ErrorCode::not_found,
                fmt::format("source '{}' is not among the template's files; names are paths from the tree's root", main));

  std::map<std::string, const std::string*> reached;
  std::vector<const FileMap::value_type*> pending{&*root};
  while (!pending.empty()) {
    const FileMap::value_type& file = *pending.back();
    pending.pop_back();
    if (!reached.emplace(file.first, &file.second).second) continue;
    auto includes = includes_of(file.first, file.second);
    if (!includes) return fail(std::move(includes.error()));
    for (const Include& include : *includes) {
      if (include.name.starts_with(kGeneratedPrefix)) continue;
      const auto next = files.find(include.name);
      if (next == files.end()) {
        return fail(ErrorCode::not_found,
                    fmt::format("{}:{}: \"{}\" is not among the template's files; names are paths from the tree's root", file.first,
                                include.line, include.name));
      }
      pending.push_back(&*next);
    }
  }

  std::vector<SourceFile> closure{{main, root->second}};
  for (const auto& [name, content] : reached) {
    if (name != main) closure.push_back({name, *content});
  }
  return closure;
}

}  // namespace kernwright
