#pragma once
// A file of the auditor's own.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_file_place(const PlaceRequest& request);

}  // namespace baton::brokers
