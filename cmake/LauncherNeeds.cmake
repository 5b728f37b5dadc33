# What ddprun itself is built with. All that is missing is said at once, with what brings it: most
# who read that came by pip.
set(_missing)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  list(APPEND _missing "g++-12 (then: export CXX=g++-12)")
endif()
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  list(APPEND _missing nlohmann-json3-dev)
endif()
find_path(DDPRUN_ASIO_INCLUDE asio.hpp)
if(NOT DDPRUN_ASIO_INCLUDE)
  list(APPEND _missing libasio-dev)
endif()
# Asio is headers only: all files of a program that include it must agree on these.
set(DDPRUN_ASIO_DEFINITIONS ASIO_STANDALONE ASIO_NO_DEPRECATED)
find_package(spdlog QUIET)
if(NOT spdlog_FOUND)
  list(APPEND _missing libspdlog-dev)
endif()
# The static library, so that the program needs none where it runs.
find_path(DDPRUN_SODIUM_INCLUDE sodium.h)
find_library(DDPRUN_SODIUM_LIBRARY NAMES libsodium.a sodium)
if(NOT DDPRUN_SODIUM_INCLUDE OR NOT DDPRUN_SODIUM_LIBRARY)
  list(APPEND _missing libsodium-dev)
endif()
mark_as_advanced(nlohmann_json_DIR spdlog_DIR DDPRUN_ASIO_INCLUDE DDPRUN_SODIUM_INCLUDE
                 DDPRUN_SODIUM_LIBRARY)
if(_missing)
  list(JOIN _missing " " _missing)
  message(FATAL_ERROR "ddprun is built with libraries that were not found.\n"
                      "On Debian and Ubuntu:\n  apt-get install ${_missing}\n"
                      "Elsewhere: the same libraries (JSON for Modern C++, Asio, spdlog,\n"
                      "libsodium).")
endif()
