#pragma once
// Versions, and the update scripts that lead from one to the next.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace baton::cli {

// Compare two versions number by number: below 0, 0 or above 0.
int compare_versions(const std::string& left, const std::string& right);

// Find the scripts baton--A--B.sql in the folder that lead from one version to the other: in order, and as
// few as possible. Nothing when no scripts lead there.
std::optional<std::vector<std::filesystem::path>> find_updates(const std::filesystem::path& folder,
                                                               const std::string& from,
                                                               const std::string& to);

}  // namespace baton::cli
