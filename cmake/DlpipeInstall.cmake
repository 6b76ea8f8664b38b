# `cmake --install`: the program, the headers and a package for find_package(dlpipe).

include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY DLPIPE_LIBRARIES)
install(TARGETS ${libraries} dlpipe_flags EXPORT dlpipeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET dlpipe)
  install(TARGETS dlpipe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/dlpipe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "cli" EXCLUDE)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dlpipe)
install(EXPORT dlpipeTargets NAMESPACE dlpipe:: DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dlpipeConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/dlpipeConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dlpipeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dlpipeConfig.cmake ${PROJECT_BINARY_DIR}/dlpipeConfigVersion.cmake
        DESTINATION ${config_dir})
