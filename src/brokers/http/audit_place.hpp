#pragma once
// A webhook receiver of the auditor's own; on the way in, the address of a pipeline's.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_http_place(const PlaceRequest& request);

}  // namespace baton::brokers
