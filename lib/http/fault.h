/* SPDX-License-Identifier: MIT */
/* fault - every error the protocol knows: status, code, text. The texts are compared by tests of clients: they stay. */
#ifndef FAULT_H
#define FAULT_H

/* X(code, status, message) */
#define FAULTS(X) \
	X(InvalidResourceName, 400, "The specified resource name contains invalid characters.") \
	X(OutOfRangeInput, 400, "The specified resource name length is not within the permissible limits.") \
	X(OutOfRangeQueryParameterValue, 400, \
	  "One of the query parameters specified in the request URI is outside the permissible range.") \
	X(InvalidQueryParameterValue, 400, \
	  "Value for one of the query parameters specified in the request URI is invalid.") \
	X(MissingRequiredQueryParameter, 400, "A required query parameter was not specified for this request.") \
	X(InvalidXmlDocument, 400, "XML specified is not syntactically valid.") \
	X(InvalidXmlNodeValue, 400, "The value for one of the XML nodes is not in the correct format.") \
	X(MissingRequiredXmlNode, 400, "A required XML node was not specified in the request body.") \
	X(InvalidInput, 400, "One of the request inputs is not valid.") \
	X(MissingRequiredHeader, 400, "A required HTTP header was not specified.") \
	X(InvalidHeaderValue, 400, "The value for one of the HTTP headers is not in the correct format.") \
	X(InvalidUri, 400, "The requested URI does not represent any resource on the server.") \
	X(InvalidMarker, 400, "The specified marker is invalid.") \
	X(InvalidMd5, 400, \
	  "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.") \
	X(Md5Mismatch, 400, \
	  "The MD5 value specified in the request did not match the MD5 value calculated by the server.") \
	X(InvalidMetadata, 400, "The specified metadata is invalid. It includes characters that are not permitted.") \
	X(EmptyMetadataKey, 400, "The key for one of the metadata key-value pairs is empty.") \
	X(MetadataTooLarge, 400, "The size of the specified metadata exceeds the maximum size permitted.") \
	X(PopReceiptMismatch, 400, "The specified pop receipt did not match the pop receipt for a dequeued message.") \
	X(MessageTooLarge, 400, "The message exceeds the maximum allowed size.") \
	X(AuthenticationFailed, 403, \
	  "Server failed to authenticate the request. Make sure the value of the Authorization header is formed " \
	  "correctly including the signature.") \
	X(AuthorizationProtocolMismatch, 403, \
	  "This request is not authorized to perform this operation using this protocol.") \
	X(AuthorizationPermissionMismatch, 403, \
	  "This request is not authorized to perform this operation using this permission.") \
	X(AuthorizationServiceMismatch, 403, \
	  "This request is not authorized to perform this operation using this service.") \
	X(AuthorizationResourceTypeMismatch, 403, \
	  "This request is not authorized to perform this operation using this resource type.") \
	X(AuthorizationSourceIPMismatch, 403, \
	  "This request is not authorized to perform this operation using this source IP.") \
	X(AuthorizationFailure, 403, "This request is not authorized to perform this operation.") \
	X(InsufficientAccountPermissions, 403, \
	  "The account being accessed does not have sufficient permissions to execute this operation. It was not " \
	  "given " \
	  "the function that the queue is to call: who runs the server gives it by \"deferred account allow ACCOUNT " \
	  "FUNCTION\".") \
	X(AccountQuotaExceeded, 403, \
	  "The account has as many queues as it may. Delete some, or have who runs the server allow more by a row in " \
	  "deferred.__deferred_quota.") \
	X(CorsPreflightFailure, 403, "CORS not enabled or no matching rule found for this request.") \
	X(QueueNotFound, 404, "The specified queue does not exist.") \
	X(MessageNotFound, 404, "The specified message does not exist.") \
	X(UnsupportedHttpVerb, 405, "The resource doesn't support specified Http Verb.") \
	X(QueueAlreadyExists, 409, "The specified queue already exists.") \
	X(QueueDisabled, 409, "The specified queue has been disabled by the administrator.") \
	X(QueueBeingDeleted, 409, "The specified queue is being deleted.") \
	X(RequestBodyTooLarge, 413, "The request body is too large and exceeds the maximum permissible limit.") \
	X(InternalError, 500, "The server encountered an internal error. Please retry the request.") \
	X(OperationTimedOut, 500, "The operation could not be completed within the permitted time.") \
	X(ServerBusy, 503, "The server is currently unable to receive requests. Please retry your request.")

enum fault {
	FAULT_NONE,
#define X(code, status, message) FAULT_##code,
	FAULTS(X)
#undef X
		FAULTS_END
};

struct fault_info {
	int status;
	const char *code, *message;
};
const struct fault_info *fault_info(enum fault fault);

#endif
