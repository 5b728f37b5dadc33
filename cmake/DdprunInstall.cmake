# cmake --install: the programs, their documents; with the trainer also the CMake package, configs
# and examples. `--component torch` puts LibTorch's libraries beside the programs, which then need
# nothing of the place where they were built. cpack makes packages of the same.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}  # the links of README.md lead there
        FILES_MATCHING PATTERN "*.md" PATTERN "*.json" PATTERN "*.svg")
install(FILES README.md LICENSE CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(DDPRUN_INSTALLED ${DDPRUN_PROGRAMS} apps/ddprun/ddprun.1)
configure_file(cmake/CheckBuilt.cmake.in ${CMAKE_BINARY_DIR}/CheckBuilt.cmake @ONLY)

if(DDPRUN_WITH_TRAINER)
  # find_package(ddprun) gives the target ddprun::ddprun.
  include(CMakePackageConfigHelpers)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
  install(TARGETS ${DDPRUN_LIBRARIES} EXPORT ddprunTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_dir})
  get_directory_property(LibTorch_VERSION DIRECTORY trainer DEFINITION LibTorch_VERSION)
  # Not where find_package looks with build/*/bin in PATH: in the build tree it cannot be used.
  set(made ${CMAKE_BINARY_DIR}/to_install)
  configure_package_config_file(cmake/ddprunConfig.cmake.in ${made}/ddprunConfig.cmake
                                INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${made}/ddprunConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${made}/ddprunConfig.cmake ${made}/ddprunConfigVersion.cmake
                cmake/FindLibTorch.cmake
          DESTINATION ${package_dir})
  install(PROGRAMS scripts/export_run.py DESTINATION ${CMAKE_INSTALL_DATADIR}/ddprun)
  install(DIRECTORY configs examples DESTINATION ${CMAKE_INSTALL_DATADIR}/ddprun
          PATTERN __pycache__ EXCLUDE)
  file(GLOB torch_libraries ${LibTorch_CPU_LIBRARY} ${LibTorch_C10_LIBRARY}
       ${LibTorch_ROOT_DIR}/lib/libgomp*.so*
       ${LibTorch_ROOT_DIR}/../nvidia/cu*/lib/libcudart.so.*
       ${LibTorch_ROOT_DIR}/../nvidia/cu*/lib/libcupti.so.*)
  install(FILES ${torch_libraries} DESTINATION ${DDPRUN_TORCH_DESTINATION} COMPONENT torch
          EXCLUDE_FROM_ALL)
endif()

set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_VENDOR "the ddprun authors")
set(CPACK_PACKAGE_CONTACT "the ddprun authors <ddprun@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_GENERATOR TGZ)
# They say which C library a .deb needs: without them it would install where it cannot run.
find_program(DDPRUN_SHLIBDEPS dpkg-shlibdeps)  # of dpkg-dev
find_program(DDPRUN_FILE file)
if(DDPRUN_SHLIBDEPS AND DDPRUN_FILE)
  list(APPEND CPACK_GENERATOR DEB)
endif()
mark_as_advanced(DDPRUN_SHLIBDEPS DDPRUN_FILE)
include(CPack)
