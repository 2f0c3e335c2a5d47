"""What is asked of a Dagster webserver: documents of Dagster's GraphQL schema."""

from __future__ import annotations

JOBS = """
query Jobs {
  repositoriesOrError {
    __typename
    ... on RepositoryConnection { nodes { name location { name } pipelines { name } } }
    ... on PythonError { message }
  }
}
"""

LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on Error { message }
  }
}
"""

LAUNCHED = """
query Launched($tags: [ExecutionTag!]) {
  runsOrError(filter: {tags: $tags}, limit: 1) { __typename ... on Runs { results { runId } } }
}
"""

LOCATIONS = """
query Locations {
  workspaceOrError {
    __typename
    ... on Workspace {
      locationEntries { name locationOrLoadError { ... on PythonError { message causes { message } } } }
    }
  }
}
"""

EVENTS = """
query Events($id: ID!, $after: String) {
  runOrError(runId: $id) { __typename ... on Run { status } }
  logsForRun(runId: $id, afterCursor: $after) {
    __typename
    ... on Error { message }
    ... on EventConnection {
      cursor
      hasMore
      events {
        __typename
        ... on MessageEvent { message timestamp stepKey }
        ... on MaterializationEvent { metadataEntries { ...Entry } }
        ... on ExecutionStepFailureEvent { error { message causes { message } } }
        ... on AssetCheckEvaluationEvent {
          evaluation { checkName assetKey { path } success description metadataEntries { ...Entry } }
        }
      }
    }
  }
}
fragment Entry on MetadataEntry {
  __typename
  label
  ... on TextMetadataEntry { text }
  ... on MarkdownMetadataEntry { mdStr }
  ... on IntMetadataEntry { intRepr }
}
"""

TERMINATE = """
mutation Terminate($id: String!) {
  terminateRun(runId: $id) { __typename ... on Error { message } }
}
"""
