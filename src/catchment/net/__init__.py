"""The network: machines over gRPC, their blobs on a disk, their events from files and sockets.

The only room with sockets in it. `run` starts a site or a coordinator out of `settings`; `driver` runs one machine
between a link (`server`, `client`), a `disk` and a `source`; `identity` says who may talk to whom.
"""
