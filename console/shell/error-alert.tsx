/** Shows why a page or section could not be loaded, and a button to try again. */
import { Alert, Button, Stack, Text, Title } from '@mantine/core';
import { getErrorMessage, isGone, Problem } from '../rest/problem.ts';
import { IconAlertTriangle } from '../style/icons.tsx';
import { LeavePageButtons } from './leave-page-buttons.tsx';

interface ErrorAlertProps {
  readonly error: unknown;
  readonly reset?: () => void;
  /** In place of a page: the title is the page's heading. */
  readonly isPage?: boolean;
}

export function ErrorAlert({ error, reset, isPage = false }: ErrorAlertProps) {
  const problem = error instanceof Problem ? error.body : null;
  const gone = isGone(error);
  return (
    <Alert
      color={gone ? 'yellow' : 'red'}
      variant="light"
      role="alert"
      title={<AlertTitle isPage={isPage} text={gone ? 'Not found' : 'Could not load'} />}
      icon={<IconAlertTriangle />}
    >
      <Stack gap="xs" align="flex-start">
        <Text className="foreign">{getErrorMessage(error)}</Text>
        {gone ? <LeavePageButtons /> : null}
        {problem !== null && !gone ? (
          <Text size="sm">Report request id {problem.requestId} to the operator if this continues.</Text>
        ) : null}
        {reset && !gone ? <Button onClick={reset}>Try again</Button> : null}
      </Stack>
    </Alert>
  );
}

function AlertTitle({ isPage, text }: { readonly isPage: boolean; readonly text: string }) {
  return isPage ? (
    <Title order={1} fz="inherit" fw="inherit" c="inherit">
      {text}
    </Title>
  ) : (
    text
  );
}
