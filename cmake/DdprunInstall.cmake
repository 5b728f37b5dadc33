# The installed CMake package: find_package(ddprun) gives one target per folder
# (ddprun::parallel, ddprun::comm, ...).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
install(TARGETS ${DDPRUN_LIBRARIES} EXPORT ddprunTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ddprunConfig.cmake.in ${CMAKE_BINARY_DIR}/ddprunConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ddprunConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ddprunConfig.cmake ${CMAKE_BINARY_DIR}/ddprunConfigVersion.cmake
              cmake/FindLibTorch.cmake
        DESTINATION ${package_dir})
