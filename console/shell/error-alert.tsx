/** Shows why a page or section could not be loaded, and a button to try again. */
import { Alert, Button, Group, Stack, Text, Title } from '@mantine/core';
import { getErrorMessage, isGone, Problem } from '../rest/problem.ts';
import { IconAlertTriangle } from '../style/icons.tsx';
import { LeavePageButtons } from './leave-page-buttons.tsx';
import { MissingCodeError } from './load-chunk.ts';
import { usePageTitle } from './use-page-title.ts';

const FORBIDDEN = 403;

interface ErrorAlertProps {
  readonly error: unknown;
  readonly reset?: () => void;
  /** In place of a page: the title is the page's heading. */
  readonly isPage?: boolean;
}

export function ErrorAlert({ error, reset, isPage = false }: ErrorAlertProps) {
  const problem = error instanceof Problem ? error.body : null;
  const isSuspended = problem?.code === 'account_suspended';
  // The service says why not, so neither a second attempt nor a report helps.
  const isRefused = isGone(error) || problem?.status === FORBIDDEN;
  return (
    <Alert
      color={isRefused ? 'yellow' : 'red'}
      variant="light"
      role="alert"
      title={isPage ? <PageTitle text={pickTitle(error)} /> : pickTitle(error)}
      icon={<IconAlertTriangle />}
    >
      <Stack gap="xs" align="flex-start">
        <Text className="foreign">{getErrorMessage(error)}</Text>
        {isSuspended ? (
          <Text size="sm">Your plugins are stopped. Ask the operator of this service to resume your account.</Text>
        ) : null}
        {isPage && isRefused && !isSuspended ? <LeavePageButtons /> : null}
        {problem !== null && !isRefused ? (
          <Text size="sm">Report request id {problem.requestId} to the operator if this continues.</Text>
        ) : null}
        <Group gap="xs">
          {error instanceof MissingCodeError ? <Button onClick={() => location.reload()}>Reload</Button> : null}
          {reset && (!isRefused || isSuspended) ? <Button onClick={reset}>Try again</Button> : null}
        </Group>
      </Stack>
    </Alert>
  );
}

function pickTitle(error: unknown): string {
  if (isGone(error)) return 'Not found';
  if (!(error instanceof Problem) || error.body.status !== FORBIDDEN) return 'Could not load';
  return error.code === 'account_suspended' ? 'Your account is suspended' : 'Not allowed';
}

function PageTitle({ text }: { readonly text: string }) {
  usePageTitle(text);
  return (
    <Title order={1} fz="inherit" fw="inherit" c="inherit">
      {text}
    </Title>
  );
}
