# ddprun_test(NAME SOURCES ... DEPENDS ... LABELS ... [TIMEOUT seconds])
#
# One GoogleTest program; every TEST becomes a ctest of its own, with the labels.
include(GoogleTest)
find_package(GTest REQUIRED)

# What a sanitizer build needs: the tests labelled "sanitize" (scripts/test.sh).
add_custom_target(sanitize_tests)

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
  gtest_discover_tests(${name} TEST_PREFIX ${name}. NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  # Not through PROPERTIES above, which loses all of a list but its first element.
  set(labels_file ${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake)
  file(WRITE ${labels_file} "if(${name}_TESTS)
  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${ARG_LABELS}\")
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${labels_file})
endfunction()
