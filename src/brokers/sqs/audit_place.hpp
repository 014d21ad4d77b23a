#pragma once
// A queue of the auditor's own.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_sqs_place(const PlaceRequest& request);

}  // namespace baton::brokers
