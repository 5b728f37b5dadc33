# ddprun_test(NAME SOURCES ... DEPENDS ... LABELS ... [TIMEOUT seconds of one TEST])
#
# One GoogleTest program. Every TEST becomes a ctest NAME.SUITE.TEST with the labels; of a program
# that loads LibTorch (label "torch") every suite does, NAME.SUITE: loading takes half a second,
# most TESTs a few milliseconds. NAME.SUITE.1 and so on are parts of a suite of many. The output
# names the TEST that failed; bin/NAME --gtest_filter=SUITE.TEST runs it alone.
find_package(GTest REQUIRED)

# What a sanitizer build needs: the tests labelled "sanitize" (scripts/test.sh).
add_custom_target(sanitize_tests)
# For tests that take most of the thread sanitizer's time, building included, and whose threads
# other tests have, too: they are its tests only in `scripts/test.sh --long`, and always those of
# the address sanitizer.
option(DDPRUN_SANITIZE_ALL "The thread sanitizer has all tests that the address sanitizer has" OFF)
set(DDPRUN_SANITIZE_LABEL sanitize)
if(DDPRUN_SANITIZE STREQUAL "thread" AND NOT DDPRUN_SANITIZE_ALL)
  set(DDPRUN_SANITIZE_LABEL "")
endif()

function(ddprun_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  ddprun_compile_options(${name})
  # Most of a build from nothing is tests: less optimized they compile in two thirds of the time,
  # and precompiled headers still fit (at -O0 they would not).
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(torch IN_LIST ARG_LABELS)
    ddprun_torch_headers(${name})
  endif()
  if(sanitize IN_LIST ARG_LABELS)
    add_dependencies(sanitize_tests ${name})
  endif()
  # gtest_discover_tests knows no suites.
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${name}_tests.cmake)
  add_custom_command(TARGET ${name} POST_BUILD VERBATIM BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${name}> -D NAME=${name}
            "-DLABELS=${ARG_LABELS}" -D TIMEOUT=${ARG_TIMEOUT}
            -D FOLDER=${CMAKE_CURRENT_BINARY_DIR} -D OUTPUT=${list}
            -P ${PROJECT_SOURCE_DIR}/cmake/ListTests.cmake)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
  file(WRITE ${include} "if(EXISTS \"${list}\")
  include(\"${list}\")
else()
  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
