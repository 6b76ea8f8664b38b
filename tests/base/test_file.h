// Where files of tests/ are, wherever the sources lie. A function, not a macro: its source alone is compiled anew in each
// checkout (cmake/DlpipeBuild.cmake makes it), and ccache knows the others.
#pragma once

#include <string>
#include <string_view>

namespace dlpipe {

// The path of `name` below tests/: test_file("io/formats/golden/zip.pth").
std::string test_file(std::string_view name);

}  // namespace dlpipe
