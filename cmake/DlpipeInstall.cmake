# `cmake --install`: the program, the headers and a package for find_package(dlpipe).

include(CMakePackageConfigHelpers)

# CMake lists what it installed in the build folder: it can't write over root's list, where `sudo cmake --install` came before.
install(CODE "file(GLOB lists \"${CMAKE_BINARY_DIR}/install_manifest*.txt\")
foreach(list \${lists})
  file(REMOVE \"\${list}\")
endforeach()" ALL_COMPONENTS)

get_property(libraries GLOBAL PROPERTY DLPIPE_LIBRARIES)
install(TARGETS ${libraries} dlpipe_flags EXPORT dlpipeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET dlpipe)
  install(TARGETS dlpipe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  if(NOT DLPIPE_SANITIZE) # cli makes these with the program
    set(share ${PROJECT_BINARY_DIR}/share)
    install(FILES ${share}/man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME dlpipe.1 COMPONENT program)
    install(FILES ${share}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME dlpipe COMPONENT program)
    foreach(folder site-functions vendor-completions) # read below /usr/local, and Debian's below /usr
      install(FILES ${share}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} RENAME _dlpipe COMPONENT program)
    endforeach()
    install(FILES ${share}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME dlpipe.fish COMPONENT program)
  endif()
endif()
# What a program may rely on, and nothing else (ARCHITECTURE.md lists them).
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/dlpipe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dlpipe)
install(EXPORT dlpipeTargets NAMESPACE dlpipe:: DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dlpipeConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/dlpipeConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dlpipeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dlpipeConfig.cmake ${PROJECT_BINARY_DIR}/dlpipeConfigVersion.cmake
        DESTINATION ${config_dir})
