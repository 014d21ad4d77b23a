#pragma once
// A webhook receiver of the auditor's own. For audits of a source: the address of a pipeline's receiver.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_http_place(const PlaceRequest& request);

}  // namespace baton::brokers
