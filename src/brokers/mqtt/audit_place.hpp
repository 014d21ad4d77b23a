#pragma once
// Two topics of the auditor's own, and a session for each: what the sink publishes is kept for the auditor,
// what the auditor publishes is kept for the source.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_mqtt_place(const PlaceRequest& request);

}  // namespace baton::brokers
