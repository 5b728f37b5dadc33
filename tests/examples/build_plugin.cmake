# Builds examples/plugin against the installed package and trains it with two ranks, as
# docs/plugins.md says.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE result)
  if(result)
    message(FATAL_ERROR "failed (${result}): ${ARGN}")
  endif()
endfunction()

set(folder ${WORK_DIR}/plugin)
file(REMOVE_RECURSE ${folder})
file(COPY ${SOURCE_DIR}/ DESTINATION ${folder})
run(${CMAKE_COMMAND} -S . -B build -G Ninja -DCMAKE_PREFIX_PATH=${INSTALLED}
    -DDDPRUN_TORCH=${TORCH} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build build)
run(build/make_waves train.waves 4000 33 1)
run(${INSTALLED}/bin/ddprun --nproc_per_node=2 train.json)
