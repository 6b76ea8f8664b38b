# Captured graphs; one file for each pass.
set(graph_sources
    graph/by_sample.cpp
    graph/capture.cpp
    graph/graph.cpp
    graph/graph_file.cpp
    graph/layout_copies.cpp
    graph/matching.cpp
    graph/output_names.cpp
    graph/passes.cpp
    graph/passes/affine.cpp
    graph/passes/fold_batch_norm.cpp
    graph/passes/fold_constants.cpp
    graph/passes/fold_scale_and_shift.cpp
    graph/passes/fuse_activation.cpp
    graph/passes/fuse_add_relu.cpp
    graph/passes/fuse_attention.cpp
    graph/passes/fuse_conv_pairs.cpp
    graph/passes/fuse_conv_units.cpp
    graph/passes/fuse_elementwise_chains.cpp
    graph/passes/fuse_written_out.cpp
    graph/passes/leave_rows_in_place.cpp
    graph/passes/remove_dead_nodes.cpp
    graph/passes/share_equal_nodes.cpp
    graph/passes/views.cpp
    graph/run.cpp)
set_source_files_properties(graph/passes/fold_batch_norm.cpp graph/passes/fold_constants.cpp graph/passes/fuse_conv_pairs.cpp graph/passes/fuse_conv_units.cpp graph/passes/fuse_elementwise_chains.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
