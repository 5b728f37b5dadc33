# ddprun_torch_headers(TARGET): the target's files find LibTorch's headers precompiled.
#
# Off by default: a cold build takes half the time for such files, but ccache cannot help with them.
option(DDPRUN_TORCH_PCH "Precompile LibTorch's headers" OFF)

if(DDPRUN_TORCH_PCH AND DDPRUN_WITH_TRAINER)
  find_package(LibTorch 2.11 REQUIRED)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_headers.cc CONTENT "")
  add_library(ddprun_torch_headers OBJECT ${CMAKE_BINARY_DIR}/torch_headers.cc)
  target_link_libraries(ddprun_torch_headers PRIVATE LibTorch::cpu)
  ddprun_compile_options(ddprun_torch_headers)
  target_precompile_headers(ddprun_torch_headers PRIVATE <ATen/core/Tensor.h>
                            <torch/nn/module.h>)
endif()

function(ddprun_torch_headers target)
  if(NOT TARGET ddprun_torch_headers)
    return()
  endif()
  # Programs too: a precompiled header is for one kind of position-independent code.
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ddprun_torch_headers)
endfunction()
