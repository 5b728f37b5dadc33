# Finds LibTorch in a PyTorch wheel or in a libtorch folder, without TorchConfig.cmake, which
# demands a CUDA toolkit whenever the wheel was built with CUDA.
#
# Input:   DDPRUN_TORCH   the folder that holds include/ and lib/ (a wheel's site-packages/torch,
#                         or an unpacked libtorch); empty: .deps/venv of this checkout. Also taken
#                         from the environment
# Targets: LibTorch::cpu   libtorch_cpu and libc10: 0.26 s to load, all that the trainer links
#          LibTorch::cuda  libtorch_cuda and libc10_cuda, only where they and all that is needed to
#                          build with them exist: CUDA's own headers and its runtime are found in
#                          the wheels (nvidia/*/include), no toolkit is needed
# Sets:    LibTorch_VERSION, LibTorch_ROOT_DIR, LibTorch_FOUND, LibTorch_CUDART_FOLDER
set(_torch_hints ${DDPRUN_TORCH} ENV DDPRUN_TORCH)
if(SKBUILD)  # a wheel is for the torch of the environment that makes it
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(*u.find_spec('torch').submodule_search_locations)"
    OUTPUT_VARIABLE _torch_of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND _torch_hints ${_torch_of_python})
endif()
if(NOT DDPRUN_TORCH)
  file(GLOB _torch_venv ${CMAKE_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/torch)
  list(APPEND _torch_hints ${_torch_venv})
endif()
find_path(LibTorch_ROOT_DIR NAMES include/ATen/ATen.h HINTS ${_torch_hints} NO_DEFAULT_PATH)

set(LibTorch_VERSION "")
set(_torch_numbers "")
if(LibTorch_ROOT_DIR)
  find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_LIBRARY c10 HINTS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  file(STRINGS ${LibTorch_ROOT_DIR}/include/torch/headeronly/version.h _torch_version_lines
       REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  foreach(_line ${_torch_version_lines})
    string(REGEX MATCH "[0-9]+$" _number "${_line}")
    list(APPEND _torch_numbers ${_number})
  endforeach()
  list(JOIN _torch_numbers "." LibTorch_VERSION)
endif()

if(DDPRUN_TORCH)
  string(CONCAT _torch_reason
         "DDPRUN_TORCH is \"${DDPRUN_TORCH}\", but the folder of a libtorch, or of a wheel's "
         "torch, was expected, which has include/ and lib/")
else()
  set(_torch_reason "run scripts/setup.sh, or name a libtorch with -DDDPRUN_TORCH=FOLDER")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch
  REQUIRED_VARS LibTorch_ROOT_DIR LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "${_torch_reason}")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  set(_torch_include ${LibTorch_ROOT_DIR}/include
                     ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION ${LibTorch_C10_LIBRARY})
  add_library(LibTorch::cpu SHARED IMPORTED)
  set_target_properties(
    LibTorch::cpu
    PROPERTIES IMPORTED_LOCATION ${LibTorch_CPU_LIBRARY}
               INTERFACE_LINK_LIBRARIES LibTorch::c10
               # SYSTEM, as for every imported target: our warnings are not for their headers.
               INTERFACE_INCLUDE_DIRECTORIES "${_torch_include}"
               # The wheels are built with the C++11 ABI since 2.6.
               INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D")
  find_library(LibTorch_CUDA_LIBRARY torch_cuda HINTS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda HINTS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH)
  # Headers and the runtime: of the wheels beside torch, or of the toolkit in CUDA_HOME.
  set(_cuda_hints ${LibTorch_ROOT_DIR}/../nvidia/cu13 ${LibTorch_ROOT_DIR}/../nvidia/nccl
      $ENV{CUDA_HOME})
  foreach(_header cuda_runtime_api.h crt/host_config.h nv/target nccl.h)
    string(MAKE_C_IDENTIFIER LibTorch_INCLUDE_${_header} _variable)
    find_path(${_variable} ${_header} HINTS ${_cuda_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
    list(APPEND _cuda_include ${${_variable}})
    mark_as_advanced(${_variable})
  endforeach()
  find_library(LibTorch_CUDART_LIBRARY NAMES libcudart.so.13 cudart HINTS ${_cuda_hints}
               PATH_SUFFIXES lib lib64 NO_DEFAULT_PATH)
  if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY AND LibTorch_CUDART_LIBRARY
     AND NOT "${_cuda_include}" MATCHES "NOTFOUND")
    get_filename_component(LibTorch_CUDART_FOLDER ${LibTorch_CUDART_LIBRARY} DIRECTORY)
    add_library(LibTorch::cuda SHARED IMPORTED)
    set(_cuda_libraries LibTorch::cpu ${LibTorch_C10_CUDA_LIBRARY} ${LibTorch_CUDART_LIBRARY})
    set_target_properties(
      LibTorch::cuda
      PROPERTIES IMPORTED_LOCATION ${LibTorch_CUDA_LIBRARY}
                 INTERFACE_LINK_LIBRARIES "${_cuda_libraries}"
                 INTERFACE_INCLUDE_DIRECTORIES "${_cuda_include}"
                 INTERFACE_COMPILE_DEFINITIONS "USE_C10D_NCCL")
  endif()
endif()
mark_as_advanced(LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_CUDA_LIBRARY
                 LibTorch_C10_CUDA_LIBRARY LibTorch_CUDART_LIBRARY)
