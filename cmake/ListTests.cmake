# cmake -D PROGRAM=FILE -D NAME=TEST -D LABELS=LIST -D TIMEOUT=SECONDS -D FOLDER=WORKING_DIRECTORY
#       -D OUTPUT=FILE -P ListTests.cmake
#
# Writes the ctests of a GoogleTest program, as ddprun_test() says.
cmake_policy(VERSION 3.22)
execute_process(COMMAND ${PROGRAM} --gtest_list_tests WORKING_DIRECTORY ${FOLDER} TIMEOUT 60
                OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
if(listed MATCHES "DISABLED_")
  message(FATAL_ERROR "${NAME} has a disabled test: GTEST_SKIP() says why one is left out.")
endif()
# Types and values stand behind a #.
string(REGEX REPLACE " *#[^\n]*" "" listed "${listed}")
string(REPLACE "\n" ";" listed "${listed}")
set(script "")

function(ctest name filter timeout)
  string(APPEND script "add_test([[${NAME}.${name}]] [[${PROGRAM}]] [[--gtest_filter=${filter}]])
set_tests_properties([[${NAME}.${name}]] PROPERTIES WORKING_DIRECTORY [[${FOLDER}]]
                     TIMEOUT ${timeout} LABELS [[${LABELS}]] ${ARGN})
")
  set(script "${script}" PARENT_SCOPE)
endfunction()

# A suite of many values is shared out, so that no core waits for it in the end.
function(ctest_suite name count)
  math(EXPR timeout "${TIMEOUT} * 10")
  math(EXPR shards "(${count} + 15) / 16")
  if(shards EQUAL 1)
    ctest(${name} ${name}.* ${timeout})
  else()
    foreach(shard RANGE 1 ${shards})
      math(EXPR index "${shard} - 1")
      ctest(${name}.${shard} ${name}.* ${timeout}
            "ENVIRONMENT [[GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}]]")
    endforeach()
  endif()
  set(script "${script}" PARENT_SCOPE)
endfunction()

set(count 0)
foreach(line ${listed} end)
  if(NOT line MATCHES "^  " AND count GREATER 0 AND "torch" IN_LIST LABELS)
    ctest_suite(${suite} ${count})
  endif()
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
    set(count 0)
  elseif(line MATCHES "^  ([A-Za-z0-9_/]+)$")
    math(EXPR count "${count} + 1")
    if(NOT "torch" IN_LIST LABELS)
      # Of a suite this would hide what failed: there scripts/left_out.py finds the tests.
      ctest(${suite}.${CMAKE_MATCH_1} ${suite}.${CMAKE_MATCH_1} ${TIMEOUT}
            "SKIP_REGULAR_EXPRESSION [==[\\[  SKIPPED \\]]==]")
    endif()
  endif()
endforeach()
file(WRITE ${OUTPUT} "${script}")
