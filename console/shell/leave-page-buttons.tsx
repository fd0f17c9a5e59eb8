/** Buttons that lead away from a page that does not exist. */
import { Button, Group } from '@mantine/core';
import { useCanGoBack, useRouter } from '@tanstack/react-router';
import { PageButton } from './page-button.tsx';

export function LeavePageButtons() {
  const { history } = useRouter();
  const canGoBack = useCanGoBack();
  return (
    <Group>
      {canGoBack ? <Button onClick={() => history.back()}>Go back</Button> : null}
      <PageButton to="/catalog" variant="default">
        Go to the catalog
      </PageButton>
    </Group>
  );
}
