# Captured graphs.
set(graph_sources
    graph/capture.cpp
    graph/graph.cpp
    graph/graph_file.cpp
    graph/inference_form.cpp
    graph/matching.cpp
    graph/passes.cpp
    graph/passes_elementwise.cpp
    graph/passes_folding.cpp
    graph/passes_products.cpp
    graph/run.cpp)
