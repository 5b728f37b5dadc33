# ddprun_test(NAME SOURCES ... DEPENDS ... LABELS ... [TIMEOUT seconds])
#
# One GoogleTest program; every TEST becomes a ctest of its own, with the labels.
include(GoogleTest)
find_package(GTest REQUIRED)

function(ddprun_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
  ddprun_compile_options(${name})
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
