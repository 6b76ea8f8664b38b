# `cpack` in a build folder: a .deb of the program, its man page and completions, with the dependencies that dpkg-shlibdeps
# finds in the program. tests/install/package installs and uses it in an empty system.

if(NOT TARGET dlpipe)
  return()
endif()
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # the program is enough; cpack would build every test first
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME dlpipe)
set(CPACK_PACKAGE_CONTACT "dlpipe maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training engine, from a folder of raw files to a trained model")
set(CPACK_PACKAGE_DESCRIPTION "One program makes a dataset of image files or texts, trains a model on it and
 says at every step where the time went.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME dlpipe)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
if(DLPIPE_HAVE_MPI) # which is loaded by name, where it is
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS openmpi-bin)
endif()
include(CPack)
