"""More than one machine: the same HTTP application in front of many engines, on Ray Serve.

    HTTP -> ingress (`ray_app`): `api` over a `Service` whose edits are made elsewhere (`forwarding`)
         -> the engine that knows the file (`file_router`)
         -> engine (`ray_app`): the runtime and `Service` of a single server

Only `ray_app` and `file_router` import Ray.  The YAML files are configurations for a laptop, one machine with eight
GPUs, and a cluster; docs/scaling.md says how to use them.
"""
