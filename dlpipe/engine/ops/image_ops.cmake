# Ops on images: what works on [N,H,W,C] and may run in a channel-blocked layout. Included by engine/CMakeLists.txt.
dlpipe_register(op reorder BACKENDS reference)
