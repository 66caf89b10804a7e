// Which names a manifest may use.
#pragma once

#include <string>
#include <string_view>

namespace kernwright {

/// Why `name` cannot stand as an identifier in generated C++ (kw::Specialisation's members, kw::Variant's enumerators, the entry), as the
/// end of a sentence "key 'name' …"; empty where it can. Stricter than C++: ASCII, no reserved form, no keyword, no macro or type that the
/// generated header meets.
std::string identifier_problem(std::string_view name);

/// The same for a variant: also lower case, since it is written into tiles.
std::string variant_problem(std::string_view name);

/// The same for a template name or a virtual file name: parts of [a-z0-9_.-] joined by '/', no empty part, none that begins with '.' or
/// '-'.
std::string virtual_name_problem(std::string_view name);

}  // namespace kernwright
