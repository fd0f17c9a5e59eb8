/** A dialog in the look of all dialogs. */
import { Modal } from '@mantine/core';
import type { ReactNode } from 'react';

interface Shown {
  readonly title: string;
  readonly opened: boolean;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

export function Dialog({ title, opened, onClose, children }: Shown) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={title}
      size="lg"
      centered
      closeButtonProps={{ 'aria-label': 'Close' }}
      styles={{ title: { fontWeight: 650 } }}
    >
      {children}
    </Modal>
  );
}
