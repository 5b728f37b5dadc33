# ddprun_library(NAME SOURCES ... HEADERS ... [DEPENDS ...] [PRIVATE_DEPENDS ...] [TORCH])
#
# One static library ddprun::NAME for the folder that calls it. Every file is listed; HEADERS are
# what other folders may include. TORCH adds LibTorch to what the library needs.
# DEPENDS are PUBLIC (a header needs them), PRIVATE_DEPENDS only the sources.
#
# DDPRUN_UNITY: the files of a library, program or test are compiled a dozen at a time. From nothing
# that takes a third of the time, after a change of one file more: the scripts, which most often
# build from nothing, turn it on. Files whose internal names clash are an error: the names want to be
# one, or to differ.
option(DDPRUN_UNITY "Compile several files at a time" OFF)
set(DDPRUN_LIBRARIES "" CACHE INTERNAL "the libraries that are installed")

function(ddprun_compile_options target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DDPRUN_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           -Wno-sign-conversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # "text" + std::string warns in GCC 12's own header (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(DDPRUN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${DDPRUN_SANITIZE})
  endif()
endfunction()

function(ddprun_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target ddprun_${name})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
  add_library(ddprun::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/ddprun>)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  # For who uses the installed package: the headers need it.
  target_compile_features(${target} INTERFACE cxx_std_20)
  if(ARG_TORCH)
    target_link_libraries(${target} PUBLIC LibTorch::cpu)
    ddprun_torch_headers(${target})
  endif()
  ddprun_compile_options(${target})
  set(DDPRUN_LIBRARIES ${DDPRUN_LIBRARIES} ${target} CACHE INTERNAL "")
  foreach(header ${ARG_HEADERS})
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ddprun/${folder})
  endforeach()
endfunction()

# ddprun_program(NAME SOURCES ... DEPENDS ...): an installed executable of apps/.
function(ddprun_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  ddprun_compile_options(${name})
  if(LibTorch_ROOT_DIR)
    # So that the installed program finds the LibTorch that it was built with.
    set_target_properties(${name} PROPERTIES INSTALL_RPATH ${LibTorch_ROOT_DIR}/lib)
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
