# ddprun_library(NAME SOURCES ... HEADERS ... [DEPENDS ...] [PRIVATE_DEPENDS ...] [TORCH])
#
# One static library ddprun::NAME for the folder that calls it. Every file is listed; HEADERS are
# what other folders may include; what users may include is include/ddprun. TORCH adds LibTorch to
# what the library needs.
# DEPENDS are PUBLIC (a header needs them), PRIVATE_DEPENDS only the sources.
#
# DDPRUN_UNITY: the files of a library, program or test are compiled a dozen at a time. From nothing
# that takes a third of the time, after a change of one file more: the scripts, which most often
# build from nothing, turn it on. Internal names that clash are an error: they want to be one, or to
# differ.
option(DDPRUN_UNITY "Compile several files at a time" OFF)
set(DDPRUN_LIBRARIES "" CACHE INTERNAL "the libraries that are installed")
set(DDPRUN_PROGRAMS "" CACHE INTERNAL "the programs that are installed")
set(DDPRUN_TORCH_DESTINATION ${CMAKE_INSTALL_LIBDIR}/ddprun)

function(ddprun_compile_options target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${DDPRUN_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           -Wno-sign-conversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # "text" + std::string warns in GCC 12's own header (GCC bug 105651).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # It has no word for what g++ is told about loops and vectors, which changes speed alone.
    target_compile_options(${target} PRIVATE -Wno-unknown-pragmas -Wno-ignored-attributes)
  endif()
  if(DDPRUN_SANITIZE)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # g++ defines __SANITIZE_ADDRESS__ or __SANITIZE_THREAD__ by itself.
      string(REGEX MATCH "address|thread" kind ${DDPRUN_SANITIZE})
      string(TOUPPER ${kind} kind)
      target_compile_definitions(${target} PRIVATE __SANITIZE_${kind}__)
    endif()
    # Who does not go on after a report needs less code for it: a sixth less to compile. A look at
    # every pointer before its use takes a quarter of the rest: what reads through a null pointer
    # ends anyway, and what reads others' bytes is checked for alignment by the fuzzers (fuzz/).
    target_compile_options(${target} PRIVATE -fsanitize=${DDPRUN_SANITIZE}
                                             -fno-sanitize-recover=all -fno-sanitize=null,alignment
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=${DDPRUN_SANITIZE})
  endif()
endfunction()

function(ddprun_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  set(target ddprun_${name})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
  add_library(ddprun::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME internal_${name})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                              $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  if(ARG_TORCH)
    target_link_libraries(${target} PUBLIC LibTorch::cpu)
    ddprun_torch_headers(${target})
  endif()
  ddprun_compile_options(${target})
  set(DDPRUN_LIBRARIES ${DDPRUN_LIBRARIES} ${target} CACHE INTERNAL "")
endfunction()

# ddprun_driver(NAME [TORCH] SOURCES ... DEPENDS ...): an executable that is not installed, which a
# test or a benchmark drives. TORCH: it includes LibTorch's headers.
function(ddprun_driver name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  ddprun_compile_options(${name})
  if(ARG_TORCH)
    ddprun_torch_headers(${name})
  endif()
endfunction()

# ddprun_program(NAME [TORCH] SOURCES ... DEPENDS ...): an installed executable of apps/.
function(ddprun_program name)
  ddprun_driver(${name} ${ARGN})
  if(LibTorch_ROOT_DIR)
    # The LibTorch that `cmake --install --component torch` puts beside the program; else the one
    # that it was built with.
    set_target_properties(${name} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../${DDPRUN_TORCH_DESTINATION};${LibTorch_ROOT_DIR}/lib")
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set(DDPRUN_PROGRAMS ${DDPRUN_PROGRAMS} bin/${name} CACHE INTERNAL "")
endfunction()
