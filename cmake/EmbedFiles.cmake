# kernwright_embed_files(TARGET name FUNCTION fn BASE folder FILES …): adds to TARGET a generated source that defines
#   std::vector<kernwright::EmbeddedFile> kernwright::fn()
# with each file's content under its path relative to BASE. Regenerated when a file changes.
function(kernwright_embed_files)
  cmake_parse_arguments(ARG "" "TARGET;FUNCTION;BASE" "FILES" ${ARGN})
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${ARG_FUNCTION}.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DFUNCTION=${ARG_FUNCTION}" "-DBASE=${ARG_BASE}" "-DFILES=${ARG_FILES}"
            -P "${PROJECT_SOURCE_DIR}/cmake/EmbedFilesScript.cmake"
    DEPENDS ${ARG_FILES} "${PROJECT_SOURCE_DIR}/cmake/EmbedFilesScript.cmake"
    VERBATIM)
  target_sources(${ARG_TARGET} PRIVATE "${output}")
endfunction()
