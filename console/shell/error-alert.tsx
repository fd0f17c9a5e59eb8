/** Shows why a page or section could not be loaded, and a button to try again. */
import { Alert, Button, Stack, Text } from '@mantine/core';
import { getErrorMessage, Problem } from '../rest/problem.ts';
import { IconAlertTriangle } from '../style/icons.tsx';

interface ErrorAlertProps {
  readonly error: unknown;
  readonly reset?: () => void;
}

export function ErrorAlert({ error, reset }: ErrorAlertProps) {
  return (
    <Alert color="red" variant="light" role="alert" title="Could not load" icon={<IconAlertTriangle />}>
      <Stack gap="xs" align="flex-start">
        <Text className="foreign">{getErrorMessage(error)}</Text>
        {error instanceof Problem ? (
          <Text size="sm">Report request id {error.body.requestId} to the operator if this continues.</Text>
        ) : null}
        {reset ? <Button onClick={reset}>Try again</Button> : null}
      </Stack>
    </Alert>
  );
}
