# `cmake --install`: the program, the headers and a package for find_package(dlpipe).

include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY DLPIPE_LIBRARIES)
install(TARGETS ${libraries} dlpipe_flags EXPORT dlpipeTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET dlpipe)
  install(TARGETS dlpipe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  # The man page and the completion of shells are the program's own words, asked for when they are installed.
  foreach(one "${CMAKE_INSTALL_MANDIR}/man1/dlpipe.1=help --man"
              "${CMAKE_INSTALL_DATADIR}/bash-completion/completions/dlpipe=completion bash"
              "${CMAKE_INSTALL_DATADIR}/zsh/site-functions/_dlpipe=completion zsh" # read below /usr/local
              "${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions/_dlpipe=completion zsh" # and Debian's, below /usr
              "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d/dlpipe.fish=completion fish")
    string(REGEX MATCH "^(.*)=(.*)$" matched ${one})
    set(path ${CMAKE_MATCH_1})
    set(arguments ${CMAKE_MATCH_2})
    get_filename_component(name ${path} NAME)
    get_filename_component(folder ${path} DIRECTORY)
    set(file "${PROJECT_BINARY_DIR}/share/${name}.installed/${name}")
    install(CODE "file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/share/${name}.installed\")
execute_process(COMMAND \"$<TARGET_FILE:dlpipe>\" ${arguments} OUTPUT_FILE \"${file}\" RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR \"dlpipe ${arguments} failed with \${status}\")
endif()" COMPONENT program)
    install(FILES ${file} DESTINATION ${folder} COMPONENT program)
  endforeach()
endif()
set(public_rooms ${DLPIPE_ROOMS})
list(REMOVE_ITEM public_rooms cli python)
list(TRANSFORM public_rooms PREPEND ${PROJECT_SOURCE_DIR}/)
install(DIRECTORY ${public_rooms} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlpipe FILES_MATCHING PATTERN "*.h")
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dlpipe)
install(EXPORT dlpipeTargets NAMESPACE dlpipe:: DESTINATION ${config_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dlpipeConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/dlpipeConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dlpipeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dlpipeConfig.cmake ${PROJECT_BINARY_DIR}/dlpipeConfigVersion.cmake
        DESTINATION ${config_dir})
