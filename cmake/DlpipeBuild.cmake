# How every target of dlpipe is compiled, and the two functions that make targets.

include(GNUInstallDirs)

# The modules are directories at the root of the repository: "engine/core/apply.h" is included from there, and the headers that
# are installed from include/: "dlpipe/tensor.h" (docs/decisions/068-public-headers.md).
set(DLPIPE_INCLUDE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)

find_program(DLPIPE_CCACHE ccache)
if(DLPIPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/through_ccache ${DLPIPE_CCACHE} ${PROJECT_SOURCE_DIR})
endif()

# A test program a folder, each linked with most of dlpipe: by the faster linker where there is one.
find_program(DLPIPE_MOLD mold)
if(DLPIPE_MOLD AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1))
  add_link_options(-fuse-ld=mold)
endif()

# Floating point keeps IEEE semantics (no -ffast-math, no contraction): the scalar twins, the reference kernels
# and the golden files rely on the same bits from every compiler and ISA.
add_library(dlpipe_flags INTERFACE)
target_compile_features(dlpipe_flags INTERFACE cxx_std_20)
target_compile_options(dlpipe_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
                                              $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
add_library(dlpipe_warnings INTERFACE)
set(for_cxx $<COMPILE_LANGUAGE:CXX>)
set(for_cuda $<COMPILE_LANGUAGE:CUDA>)
target_compile_options(
  dlpipe_warnings INTERFACE $<${for_cxx}:-Wall> $<${for_cxx}:-Wextra> $<$<AND:${for_cxx},$<BOOL:${DLPIPE_WERROR}>>:-Werror>
                            $<${for_cuda}:-Xcompiler=-Wall> $<$<AND:${for_cuda},$<BOOL:${DLPIPE_WERROR}>>:-Werror=all-warnings>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Warnings that follow values through what was inlined: each release of GCC finds other impossible ones in the standard
  # library's own code (GCC bug 105651: std::string's operator+ in 12; std::variant's destructor in 14).
  set(impossible -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND impossible -Wno-maybe-uninitialized -Wno-dangling-reference)
  endif()
  foreach(warning ${impossible})
    target_compile_options(dlpipe_warnings INTERFACE $<${for_cxx}:${warning}> $<${for_cuda}:-Xcompiler=${warning}>)
  endforeach()
endif()
if(CMAKE_UNITY_BUILD) # the sanitizers' builds: one compilation for several files
  add_compile_options(-Wno-subobject-linkage) # an Impl with local types, where GCC takes the unity source for a header
  # Unity sources include by whole paths, and GoogleTest's macros write them into objects: no checkout would find in ccache
  # the tests that another one compiled.
  add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
endif()
if(DLPIPE_SANITIZE)
  add_compile_definitions(DLPIPE_ONE_ISA)
  add_compile_options(-fsanitize=${DLPIPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
                      # oneTBB's task types lie in its own library; the other two AddressSanitizer reports itself, and
                      # they double the time to compile
                      -fno-sanitize=vptr,null,object-size)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # unity sources are large: collecting the compiler's garbage took a tenth
    add_compile_options(--param=ggc-min-expand=400)
    if(DLPIPE_SANITIZE MATCHES "undefined")
      # Undefined behaviour ends in an illegal instruction, which AddressSanitizer reports with its line (handle_sigill=1). What
      # messages need to know of each place is 111 MB of a program's data, written to and searched for pointers at each start and
      # end: a command took 0.21 s, and takes 0.08.
      add_compile_options(-fsanitize-undefined-trap-on-error)
    endif()
  endif()
  add_link_options(-fsanitize=${DLPIPE_SANITIZE}
                   # a program that may lie anywhere writes to all pointers in its data at each start: those of what checks with
                   # messages know of the source, clang's for example, are tens of megabytes
                   $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>
                   # compressing it (-gz, for objects in ccache) takes longer than linking
                   -Wl,--compress-debug-sections=none)
endif()

# Reading the standard library is most of a small compilation, and precompiling it takes as long as ten of those: it is
# done once for targets whose flags are alike. REUSE names the target that does it; the others take theirs with more
# headers if they like. The header is an addition; every file includes what it uses (the debug preset builds without).
# dlpipe_precompile(TARGET [REUSE target] [<header> ...])
function(dlpipe_precompile target)
  cmake_parse_arguments(ARG "" "REUSE" "" ${ARGN})
  if(DLPIPE_PRECOMPILE AND ARG_REUSE)
    target_precompile_headers(${target} REUSE_FROM ${ARG_REUSE})
  elseif(DLPIPE_PRECOMPILE)
    target_precompile_headers(
      ${target} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <map>
      <memory> <mutex> <optional> <span> <string> <string_view> <thread> <utility> <vector> ${ARG_UNPARSED_ARGUMENTS})
  endif()
endfunction()

# For code whose own speed nobody notices: tests, the command line.
function(dlpipe_compile_sooner target)
  if(DLPIPE_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  endif()
endfunction()

# dlpipe_library(NAME [NO_HOT_LOOPS] SOURCES ... [PUBLIC targets...] [PRIVATE targets...])
# One static library a folder: dlpipe_NAME, alias dlpipe::NAME. NO_HOT_LOOPS: the sanitizers' builds optimize it less,
# which compiles in two thirds of the time.
function(dlpipe_library name)
  cmake_parse_arguments(ARG "NO_HOT_LOOPS" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(dlpipe_${name} STATIC ${ARG_SOURCES})
  foreach(source ${ARG_SOURCES})
    file(STRINGS ${source} highway REGEX "<hwy/foreach_target\\.h>")
    if(highway)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON) # it works once a compilation
      if(DLPIPE_SANITIZE)
        # Marking where each vector's scope begins and ends makes products take eleven times as long. A precompiled header
        # would bring its own -O1.
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -O2 -fno-sanitize-address-use-after-scope)
        set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endif()
  endforeach()
  add_library(dlpipe::${name} ALIAS dlpipe_${name})
  set_target_properties(dlpipe_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(
    dlpipe_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(dlpipe_${name} PUBLIC dlpipe_flags ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE}
                                              $<BUILD_INTERFACE:dlpipe_warnings>)
  if(name STREQUAL "base" OR "OpenMP::OpenMP_CXX" IN_LIST ARG_PRIVATE) # whose flag needs a header of its own
    dlpipe_precompile(dlpipe_${name})
  else()
    dlpipe_precompile(dlpipe_${name} REUSE dlpipe_base)
  endif()
  if(DLPIPE_SANITIZE AND ARG_NO_HOT_LOOPS) # GCC's -Og sees less of what a std::optional holds
    target_compile_options(dlpipe_${name} PRIVATE -Og -Wno-maybe-uninitialized)
  endif()
  set_property(GLOBAL APPEND PROPERTY DLPIPE_LIBRARIES dlpipe_${name})
endfunction()

# What differs between checkouts is one source: a definition, or a header, would keep ccache from all tests that see it.
if(DLPIPE_TESTS)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/test_file.cpp CONTENT "#include \"tests/base/test_file.h\"

std::string dlpipe::test_file(std::string_view name) { return std::string(\"${PROJECT_SOURCE_DIR}/tests/\").append(name); }
")
  add_library(dlpipe_test_files STATIC ${PROJECT_BINARY_DIR}/test_file.cpp)
  target_link_libraries(dlpipe_test_files PRIVATE dlpipe_flags)
  target_include_directories(dlpipe_test_files PRIVATE ${PROJECT_SOURCE_DIR})
endif()

# dlpipe_test_library(NAME SOURCES ... [LIBS targets...]): what several test programs share.
function(dlpipe_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC dlpipe_base ${ARG_LIBS} PRIVATE dlpipe_warnings)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  dlpipe_precompile(${name} REUSE dlpipe_base)
endfunction()

# dlpipe_test(NAME SOURCES a_test.cpp ... [LIBS targets...] [LABELS pipeline ...] [ENV VAR=VALUE ...] [TIMEOUT s] [SHARDS n])
# One GoogleTest program; each TEST in it becomes one ctest test. With SHARDS n (for tests that look at something costly,
# which a program makes once) or DLPIPE_TEST_SHARDS=n, whichever is more, the program becomes n of them, NAME.1 to NAME.n,
# which share its TESTs. TIMEOUT is then a shard's, and of DLPIPE_TEST_SHARDS three times as long: sanitizers are slow.
function(dlpipe_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;SHARDS" "SOURCES;LIBS;LABELS;ENV" ${ARGN})
  if(NOT DLPIPE_TESTS)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} dlpipe_test_files dlpipe_warnings GTest::gtest GTest::gtest_main)
  dlpipe_compile_sooner(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(NOT "OpenMP::OpenMP_CXX" IN_LIST ARG_LIBS) # its flag would need a header of its own
    if(NOT TARGET dlpipe_tests_precompiled)
      file(WRITE ${PROJECT_BINARY_DIR}/tests_precompiled.cpp "int main() {}\n")
      add_executable(dlpipe_tests_precompiled EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/tests_precompiled.cpp)
      target_link_libraries(dlpipe_tests_precompiled PRIVATE dlpipe_flags dlpipe_warnings GTest::gtest)
      dlpipe_compile_sooner(dlpipe_tests_precompiled)
      dlpipe_precompile(dlpipe_tests_precompiled <gtest/gtest.h>)
    endif()
    dlpipe_precompile(${name} REUSE dlpipe_tests_precompiled)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS) # the folder below tests/
    file(RELATIVE_PATH ARG_LABELS ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
    string(REGEX REPLACE "/.*" "" ARG_LABELS ${ARG_LABELS})
  endif()
  foreach(label ${ARG_LABELS}) # `ninja tests_pipeline` builds the programs of one label
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
  if(DLPIPE_TEST_SHARDS)
    if(NOT ARG_SHARDS OR ARG_SHARDS LESS DLPIPE_TEST_SHARDS)
      set(ARG_SHARDS ${DLPIPE_TEST_SHARDS})
    endif()
    math(EXPR ARG_TIMEOUT "3 * ${ARG_TIMEOUT}")
  endif()
  # the same kernels on every machine, nothing in anybody's ~/.cache
  set(properties LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT_MODIFICATION DLPIPE_KERNELS=set:rules)
  if(NOT ARG_SHARDS)
    set(environment "") # an empty value would be dropped on the way and shift the properties after it
    if(ARG_ENV)
      set(environment ENVIRONMENT "${ARG_ENV}")
    endif()
    include(GoogleTest)
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
                         PROPERTIES ${environment} ${properties})
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}.${shard} COMMAND ${name})
    set_tests_properties(
      ${name}.${shard} PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index};${ARG_ENV}"
                                  ${properties})
  endforeach()
endfunction()
