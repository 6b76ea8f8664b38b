# Installs the build into a fresh prefix and builds and runs a program of its own against it, as its user would.
# Variables: BUILD_DIR, CONSUMER, RUNTIME_CONSUMER, WORK_DIR, GENERATOR, CXX
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\nfailed with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
foreach(file share/man/man1/dlpipe.1 share/bash-completion/completions/dlpipe share/zsh/vendor-completions/_dlpipe
             share/fish/vendor_completions.d/dlpipe.fish)
  file(READ ${prefix}/${file} text)
  if(NOT text MATCHES "verify")
    message(FATAL_ERROR "${file} names no command:\n${text}")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK_DIR}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${prefix}/bin/dlpipe synth ${WORK_DIR}/jpegs --per-class 40 --size 32 --seed 1)
run(${prefix}/bin/dlpipe ingest ${WORK_DIR}/jpegs ${WORK_DIR}/data)
run(${WORK_DIR}/build/consumer ${WORK_DIR}/data ${WORK_DIR}/jpegs)
message(STATUS "consumer: ${output}")
# dlpipe::runtime alone, on a machine that has nothing of what the pipeline reads with.
set(none_of_these)
foreach(package JPEG PNG ZLIB nlohmann_json)
  list(APPEND none_of_these -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
run(${CMAKE_COMMAND} -S ${RUNTIME_CONSUMER} -B ${WORK_DIR}/runtime -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Release ${none_of_these})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/runtime)
run(${prefix}/bin/dlpipe train --data ${WORK_DIR}/data --model lenet --max-steps 2 --out ${WORK_DIR}/run)
run(${prefix}/bin/dlpipe compile ${WORK_DIR}/run -o ${WORK_DIR}/model.dlg)
run(${WORK_DIR}/runtime/runtime_consumer ${WORK_DIR}/model.dlg)
if(NOT output STREQUAL "[1,10]\n")
  message(FATAL_ERROR "runtime_consumer: ${output}")
endif()
