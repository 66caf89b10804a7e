# The static libraries behind the remote cache, as KernwrightRemote::hiredis and KernwrightRemote::sodium. Included by the build and, installed
# beside it, by kernwrightConfig.cmake: an installed static library names them, and neither upstream package has a static CMake target.
# Targets are defined only where everything was found; KernwrightRemote_FOUND says whether, KernwrightRemote_MISSING what is not there.
set(KernwrightRemote_MISSING)
foreach(item "hiredis hiredis/hiredis.h" "sodium sodium.h")
  separate_arguments(item)
  list(GET item 0 library)
  list(GET item 1 header)
  string(TOUPPER "KERNWRIGHT_${library}" prefix)
  # Never the shared one: a program that was built here is carried to machines that lack it.
  find_library(${prefix}_LIBRARY NAMES "lib${library}.a")
  find_path(${prefix}_INCLUDE "${header}")
  mark_as_advanced(${prefix}_LIBRARY ${prefix}_INCLUDE)
  if(NOT ${prefix}_LIBRARY OR NOT ${prefix}_INCLUDE)
    list(APPEND KernwrightRemote_MISSING "lib${library}.a with ${header}")
  endif()
endforeach()

if(KernwrightRemote_MISSING)
  set(KernwrightRemote_FOUND FALSE)
else()
  set(KernwrightRemote_FOUND TRUE)
  foreach(library hiredis sodium)
    if(NOT TARGET KernwrightRemote::${library})
      string(TOUPPER "KERNWRIGHT_${library}" prefix)
      add_library(KernwrightRemote::${library} STATIC IMPORTED)
      set_target_properties(KernwrightRemote::${library} PROPERTIES
        IMPORTED_LOCATION "${${prefix}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${prefix}_INCLUDE}")
    endif()
  endforeach()
endif()
