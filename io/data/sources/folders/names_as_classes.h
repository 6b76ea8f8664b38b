// Pictures in one folder whose names begin with their classes: cat.0.jpg, Abyssinian_100.jpg. Pure functions of names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dlpipe::data {

/// What stands before a file's number: "cat" of "cat.0.jpg". "" where the name is of another form, or a list couldn't hold it.
std::string_view class_in_name(std::string_view name);

/// "if the names of its files do ('cat', 'dog'): ..." with the commands that list `names`, the pictures in `folder`, by class_in_name()
/// and ingest them; "" where not all have such a class, or these are one or too many.
std::string hint_of_names(const std::string& folder, std::span<const std::string> names);

}  // namespace dlpipe::data
