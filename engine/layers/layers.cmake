set(layer_sources
    layers/init.cpp
    layers/layers.cpp
    layers/module.cpp
    layers/recompute.cpp
    layers/split.cpp
    layers/staged.cpp)
