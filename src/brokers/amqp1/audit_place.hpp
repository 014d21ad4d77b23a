#pragma once
// Two queues of the auditor's own: from one it takes what the sink sent, from the other one the source reads.
// The broker makes them when they are first asked for, or somebody has to make them before.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_amqp1_place(const PlaceRequest& request);

}  // namespace baton::brokers
