"""Makes the backend "ddprun" known whenever torch is imported (entry point "torch.backends").

The library is loaded with the first group: other programs of the environment pay nothing for it,
and one that was built for another torch does not break `import torch`.
"""

import torch.distributed as dist


def _create(options, backend_options):
    import ddprun.torch
    return ddprun.torch.create(options, backend_options)


def register():
    if dist.is_available() and not hasattr(dist.Backend, "DDPRUN"):
        dist.Backend.register_backend("ddprun", _create, extended_api=True, devices=["cpu"])
