#pragma once
// A label of the auditor's own, with a node for each event that the sink applied, numbered in that order.

#include "brokers/audit_place.hpp"

namespace baton::brokers {

std::unique_ptr<AuditPlace> make_neo4j_place(const PlaceRequest& request);

}  // namespace baton::brokers
