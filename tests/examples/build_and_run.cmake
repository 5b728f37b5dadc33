# Builds an example against the installed package and runs it with two ranks, under ddprun and as
# srun starts programs.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(result)
    message(FATAL_ERROR "failed (${result}): ${ARGN}")
  endif()
endfunction()

set(build ${WORK_DIR}/${PROGRAM})
file(REMOVE_RECURSE ${build})
run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${build} -G Ninja
    -DCMAKE_PREFIX_PATH=${INSTALLED} -DDDPRUN_TORCH=${TORCH}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
run(${CMAKE_COMMAND} --build ${build})
run(${INSTALLED}/bin/ddprun --nproc_per_node=2 ${build}/${PROGRAM})
# ddprun gives each worker one OpenMP thread; srun does not, and more threads than cores wait long.
run(sh -c "export OMP_NUM_THREADS=1 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 \
                  SLURM_STEP_TASKS_PER_NODE=2 SLURM_NODEID=0
           SLURM_PROCID=1 SLURM_LOCALID=1 ${build}/${PROGRAM} &
           SLURM_PROCID=0 SLURM_LOCALID=0 ${build}/${PROGRAM} && wait $!")
