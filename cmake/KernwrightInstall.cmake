# `cmake --install`, and the package that find_package(kernwright) reads. The C++ library is static, so its own static dependencies are the
# package's as well (kernwrightConfig.cmake.in finds them); header-only ones stay inside. The shared library of the C interface needs none, and
# is exported by itself, so that a project without C++ and without those dependencies finds it.
include(CMakePackageConfigHelpers)

install(TARGETS kernwright EXPORT kernwrightTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(TARGETS kernwright_shared EXPORT kernwrightSharedTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runtime/include/kernwright" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.h")
if(TARGET kernwright_program)
  install(TARGETS kernwright_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/kernwright")
install(EXPORT kernwrightTargets NAMESPACE kernwright:: DESTINATION "${package_folder}")
install(EXPORT kernwrightSharedTargets NAMESPACE kernwright:: DESTINATION "${package_folder}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/kernwrightConfig.cmake.in" "${PROJECT_BINARY_DIR}/kernwrightConfig.cmake"
  INSTALL_DESTINATION "${package_folder}" NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kernwrightConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kernwrightConfig.cmake" "${PROJECT_BINARY_DIR}/kernwrightConfigVersion.cmake"
  DESTINATION "${package_folder}")
if(KERNWRIGHT_REMOTE_ENABLED)
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/KernwrightRemoteLibraries.cmake" DESTINATION "${package_folder}")
endif()
