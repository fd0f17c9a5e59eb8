/** A page or a part of one that could not be had: what is wrong, and the button that tries again. */
import { Alert, Button, Stack, Text } from '@mantine/core';
import { getErrorMessage, Problem } from '../rest/problem.ts';
import { IconAlertTriangle } from '../style/icons.tsx';

interface Failed {
  readonly error: unknown;
  readonly reset?: () => void;
}

export function ErrorAlert({ error, reset }: Failed) {
  return (
    <Alert color="red" variant="light" role="alert" title="This did not work" icon={<IconAlertTriangle />}>
      <Stack gap="xs" align="flex-start">
        <Text className="foreign">{getErrorMessage(error)}</Text>
        {error instanceof Problem ? (
          <Text size="sm">Whoever runs the service finds the cause under {error.body.requestId}.</Text>
        ) : null}
        {reset ? <Button onClick={reset}>Try again</Button> : null}
      </Stack>
    </Alert>
  );
}
